import type { Settlement } from './settlement.ts'

/** A settlement as a journal record: JSON, with integers of money as text. The version comes first, so that an upgrade can read what is left. */
export function encodeSettlement(settlement: Settlement): string {
  return `${VERSION}${JSON.stringify(settlement, bigintAsText)}`
}

/** Throws when the record is of another version. */
export function decodeSettlement(payload: Buffer): Settlement {
  const text = payload.toString('utf8')
  if (!text.startsWith(VERSION)) {
    throw new Error(
      'The journal was written by a version of Switchyard that this one cannot read. Start that version once more, let it stop by itself, then upgrade.',
    )
  }
  const fields = JSON.parse(text.slice(VERSION.length))
  for (const name of moneyFields) fields[name] = BigInt(fields[name])
  for (const name of ['inputPicoPerToken', 'outputPicoPerToken']) fields.price[name] = BigInt(fields.price[name])
  return fields
}

const VERSION = '2'
const moneyFields = ['holdNanos', 'costNanos', 'hosterShareNanos', 'feeNanos', 'writeoffNanos'] as const

function bigintAsText(_name: string, value: unknown): unknown {
  return typeof value === 'bigint' ? value.toString() : value
}
