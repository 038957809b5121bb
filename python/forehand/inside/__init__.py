"""What a running worker can be asked for that takes a while: where its time goes, and what its memory holds."""
