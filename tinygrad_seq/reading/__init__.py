"""Questions asked of a recorded tape: every number of a backward pass, looked at without changing anything.

`tape` holds Tape and Flow; `ledger` the uses of a tensor, `chain` the factors from step to step, `steps` the pass one
operation at a time, `visibility` who can depend on whom, `mistakes` what a wrong gradient looks like, `jacobians` the
derivatives that are matrices, `table` how all of it is printed. Uses the engine.
"""
