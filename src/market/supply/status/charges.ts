/** The sums that customers were charged for the answers of each offer since this node started. */
export interface Charges {
  add(offerId: string, costNanos: bigint): void
  of(offerId: string): bigint
}

export function createCharges(): Charges {
  const sums = new Map<string, bigint>()
  return {
    add: (offerId, costNanos) => sums.set(offerId, (sums.get(offerId) ?? 0n) + costNanos),
    of: offerId => sums.get(offerId) ?? 0n,
  }
}
