/** The id of the `number`-th entity of a kind: formatted as a UUID, and recognisable in a trace. */
export function idOf(kind: keyof typeof kinds, number: number): string {
  return `${kinds[kind]}-0000-7000-8000-${number.toString(16).padStart(12, '0')}`
}

const kinds = {
  customer: 'c0000000',
  request: 'a0000000',
  lease: 'b0000000',
  node: 'd0000000',
  key: 'e0000000',
  hoster: 'f0000000',
  payment: '90000000',
  reversal: '80000000',
} as const
