"""From files to tables: containers give flat records, folds make tables of them in bounded memory."""
