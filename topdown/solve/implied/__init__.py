"""What facts about leaves imply for every node above them (Census TopDown, section 7 and appendix)."""
