"""The tables of the ledger.

Decides what is a column (what rows are found by) and what is one JSON value (everything else). `body` is written once,
`state` with each transition. A lane's columns are derived from its head, so that claiming is one look into an index
for each agent that is asked for, however much is settled, waits, or is meant for others.
"""

from typing import Final

LEDGER_TABLES: Final = """
CREATE TABLE submissions (
    tenant TEXT NOT NULL,
    submission TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    conversation TEXT NOT NULL,
    principal TEXT NOT NULL,
    key TEXT NOT NULL,
    unsettled INTEGER NOT NULL,
    body BLOB NOT NULL,
    state BLOB NOT NULL,
    reserved BLOB,
    PRIMARY KEY (tenant, submission)
) STRICT;
CREATE UNIQUE INDEX submissions_in_order ON submissions (sequence);
CREATE UNIQUE INDEX submissions_by_identity ON submissions (submission);
CREATE UNIQUE INDEX submissions_by_key ON submissions (tenant, principal, key);
CREATE INDEX submissions_of_conversation ON submissions (tenant, conversation, sequence);
CREATE INDEX submissions_unsettled ON submissions (tenant, conversation, sequence) WHERE unsettled = 1;
CREATE INDEX submissions_unsettled_in_order ON submissions (sequence, tenant, conversation) WHERE unsettled = 1;
CREATE TABLE lanes (
    tenant TEXT NOT NULL,
    conversation TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    due INTEGER,
    head INTEGER,
    agent TEXT,
    abort_wanted INTEGER NOT NULL,
    input_pending INTEGER NOT NULL,
    PRIMARY KEY (tenant, conversation)
) STRICT, WITHOUT ROWID;
CREATE INDEX lanes_due ON lanes (agent, due, head) WHERE due IS NOT NULL;
CREATE TABLE counters (
    counter TEXT NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
"""
