import type { Settlement } from './settlement.ts'

/**
 * A settlement as a journal record: JSON, with integers of money as text. The version comes first, so that an upgrade can read what is left.
 * The integers are named one by one, since a replacer, called for each of thirty fields, made this four times as dear.
 */
export function encodeSettlement(settlement: Settlement): string {
  const { price, holdNanos, costNanos, hosterShareNanos, feeNanos, writeoffNanos } = settlement
  const record: Record<keyof Settlement, unknown> = {
    ...settlement,
    price: {
      inputPicoPerToken: price.inputPicoPerToken.toString(),
      outputPicoPerToken: price.outputPicoPerToken.toString(),
    },
    holdNanos: holdNanos.toString(),
    costNanos: costNanos.toString(),
    hosterShareNanos: hosterShareNanos.toString(),
    feeNanos: feeNanos.toString(),
    writeoffNanos: writeoffNanos.toString(),
  }
  return `${VERSION}${JSON.stringify(record)}`
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
