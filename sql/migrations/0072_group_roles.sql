-- Roles that groups of a sign-in service give: docs/decisions/2026-11-29-roles-by-groups.md.

-- Which roles they may give. Each start writes it from the configuration, as the owner.
CREATE TABLE group_role_rule (
  issuer text NOT NULL,
  role text NOT NULL CHECK (role IN ('operator', 'auditor')),
  provider text NOT NULL,
  hours integer NOT NULL CHECK (hours > 0),
  PRIMARY KEY (issuer, role)
);

-- The people whose role on the installation comes from a group.
CREATE TABLE group_role (
  person_id uuid PRIMARY KEY REFERENCES person ON DELETE CASCADE,
  issuer text NOT NULL,
  ends_at timestamptz NOT NULL
);
