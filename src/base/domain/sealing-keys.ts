/** The keys of one purpose, 32 bytes each. There is more than one after a key was replaced. */
export interface SealingKeys {
  /** Seals and signs. */
  readonly current: Buffer
  /** Each opens and confirms what it made. The current one comes first. */
  readonly all: readonly Buffer[]
}

/** A key that is never replaced. */
export const fixedKey = (key: Buffer): SealingKeys => ({ current: key, all: [key] })
