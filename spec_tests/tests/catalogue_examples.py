"""Examples and refusals for the rows of the table that are about tool sources."""

from typing import Any

from tests.machine_moves import after, batch, changed, seam
from triolet.kernel.machine import guards as g
from triolet.ports import records as r
from triolet.ports.canonical import GENESIS
from triolet.ports.identity import CallId

OFFERED = r.ToolCatalogueChanged(source="s", source_version="1", digest=GENESIS, tools=("s__a",), server="S")
DECIDED = r.CallsDecided(turn=1, runnable=(r.RunnableCall(call=CallId("r-1-0"), execution="readonly"),))

ROWS: dict[Any, Any] = {
    ("seam", r.ToolCatalogueChanged): (seam, OFFERED, "seam"),
    ("batch", r.ToolCatalogueChanged): (lambda: batch("a"), OFFERED, "batch"),
}

REFUSALS: dict[Any, Any] = {
    g.unlike_before: (
        (lambda: after(OFFERED, state=seam()), OFFERED),
        (lambda: after(OFFERED, changed(OFFERED, tools=()), state=seam()), changed(OFFERED, tools=())),
        (lambda: after(OFFERED, state=batch("a")), OFFERED),
    ),
    g.before_deciding: ((lambda: after(DECIDED, state=batch("a")), OFFERED),),
}
