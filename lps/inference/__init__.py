"""A trained model at work: new pictures, training on with names, ways out of it. Imports interop and below."""
