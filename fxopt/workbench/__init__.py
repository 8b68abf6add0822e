"""One model and the passes that are on: what the page and scripts drive.

`Workbench` is the state and the acts. Beside it, each imported from its own module, stands what is said of sites before
and after: `preview` (what a switch would do), `copies` (one site in every copy of a block), `site_code` (a site's code)
and `verdicts` (what every pass says of a node).
"""

from fxopt.workbench.choosing import Sites
from fxopt.workbench.states import Choice, MissState, PassState, SiteState
from fxopt.workbench.workbench import Workbench

__all__ = ["Choice", "MissState", "PassState", "SiteState", "Sites", "Workbench"]
