"""One module per revision; what it names is frozen here, as `tables` moves on."""
