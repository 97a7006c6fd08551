"""The doors (web, terminal, chat), the handler behind them, and the loops that keep cards true."""
