"""The face: one module per verb, loaded only when that verb is asked for."""
