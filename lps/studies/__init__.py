"""Many runs for one question: sweeps, searches, the paper's tables, the number of classes. Imports scheduler, analysis,
training and below."""
