"""One model and the passes that are on: the state behind the page and scripts.

`Workbench` is the state and the acts. The modules beside it describe sites before and after; each is imported by its
own name: `preview` (the effect of a switch), `ceilings` (the most that it can bring), `autotuning` (the sites that
pay), `bisecting` (those to blame for a wrong or slow result), `copies` (one site in every copy of a block), `site_code`
(a site's code) and `verdicts` (the word of every pass on a node).
"""

from fxopt.workbench.choosing import Sites
from fxopt.workbench.states import Choice, MissState, PassState, SiteState
from fxopt.workbench.workbench import Workbench

__all__ = ["Choice", "MissState", "PassState", "SiteState", "Sites", "Workbench"]
