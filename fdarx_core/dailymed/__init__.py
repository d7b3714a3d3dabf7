"""Labels from DailyMed: bulk releases, and single labels by set id or query, checked and listed in a manifest."""
