"""The vocabulary of Triolet: values, records, events, errors, and one Protocol per capability."""
