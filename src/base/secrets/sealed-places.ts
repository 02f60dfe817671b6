import type { SecretPurpose } from './sealed-secret.ts'

/** A column with sealed secrets. */
export interface SealedPlace {
  readonly purpose: SecretPurpose
  readonly table: string
  readonly column: string
  /** The primary key, and the types of its columns. */
  readonly key: readonly { readonly column: string; readonly type: 'uuid' | 'text' }[]
  /** The column with the `ownerId` that the secret is bound to. */
  readonly owner: string
  /** The role that may write it: see sql/functions/rights/lists.sql. */
  readonly role: 'gateway' | 'desk'
}

/**
 * Every column with values that a master key seals. `switchyard key-ring` and the job `reseal_secrets` work through this list, so a
 * column that is missing here would be lost when an old key is forgotten: a test compares it with the schema.
 */
export const sealedPlaces: readonly SealedPlace[] = [
  {
    purpose: 'upstream_key',
    table: 'hoster_endpoint',
    column: 'key_sealed',
    key: [{ column: 'endpoint_id', type: 'uuid' }],
    owner: 'hoster_id',
    role: 'gateway',
  },
  {
    purpose: 'provider_key',
    table: 'provider',
    column: 'secrets_sealed',
    key: [{ column: 'name', type: 'text' }],
    owner: 'name',
    role: 'desk',
  },
  {
    purpose: 'webhook_secret',
    table: 'alert_rule',
    column: 'secret_sealed',
    key: [{ column: 'rule_id', type: 'uuid' }],
    owner: 'rule_id',
    role: 'gateway',
  },
  {
    purpose: 'totp',
    table: 'person',
    column: 'totp_secret',
    key: [{ column: 'person_id', type: 'uuid' }],
    owner: 'person_id',
    role: 'desk',
  },
  {
    purpose: 'totp',
    table: 'person',
    column: 'totp_pending',
    key: [{ column: 'person_id', type: 'uuid' }],
    owner: 'person_id',
    role: 'desk',
  },
  {
    purpose: 'stored_answer',
    table: 'idempotency',
    column: 'answer_sealed',
    key: [
      { column: 'customer_id', type: 'uuid' },
      { column: 'key', type: 'text' },
    ],
    owner: 'request_id',
    role: 'gateway',
  },
  {
    purpose: 'request_content',
    table: 'request_content',
    column: 'sealed',
    key: [{ column: 'request_id', type: 'uuid' }],
    owner: 'request_id',
    role: 'gateway',
  },
]

/** Purposes without a column that could be sealed again. */
export const keptElsewhere: Readonly<Partial<Record<SecretPurpose, string>>> = {
  compaction: 'Clients keep compacted conversations. Those of a forgotten key are refused.',
  operator_answer: 'Sealed with the key of the operator, not with a master key.',
}

/** `person.totp_secret`: how commands and the log name a place. */
export const nameOfPlace = ({ table, column }: SealedPlace) => `${table}.${column}`
