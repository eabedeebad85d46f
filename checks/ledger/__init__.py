"""The record of a run: written as it goes, finished atomically, verified and compared later."""
