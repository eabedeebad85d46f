"""What every area shares: verdicts, facts, expectations, the registry and the runner."""
