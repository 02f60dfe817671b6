-- Paying a frozen hoster again and giving a claw-back back need a reason, for the hoster and the audit log, as the freeze and the
-- claw-back do.
ALTER TABLE clawback ADD COLUMN return_reason text;
