import { createHmac } from 'node:crypto'
import type { SealingKeys } from '../domain/sealing-keys.ts'
import { elementAt } from '../runtime/collections.ts'

/**
 * The purposes of keys that are derived from the master keys. Apart from evidence of credit, which `key-ring forget` renews, the
 * database keeps nothing of them for longer than a day: a former key is only needed for what clients and browsers keep.
 */
export type DerivedPurpose =
  // Signs what clients were given: see money/ledger/credit-evidence.ts.
  | 'evidence of credit'
  // Clients keep them for as long as they want.
  | 'compacted conversations'
  // Each hoster has other ones for the same person after a rotation.
  | 'pseudonyms for hosters'
  // Kept for a day.
  | 'conversations that hosters have seen'
  // A node keeps the one of its start: until all have restarted after a rotation, they choose other traces.
  | 'sampling of traces'
  // Browsers keep them for five and ten minutes.
  | 'challenges of passkeys'
  | 'attempts to sign in with another service'

/**
 * The master keys of an installation, as one process knows them: its key ring. Which of them seals, the database says
 * (key-ring-state.ts), so that all nodes change at once. Keys come and go while the process runs.
 */
export class MasterKeys implements SealingKeys {
  #all: readonly Buffer[]

  /** @param all at least one key of 32 bytes; the first one seals until `use` chooses another */
  constructor(all: readonly Buffer[]) {
    this.#all = all
  }

  get current(): Buffer {
    return elementAt(this.#all, 0)
  }

  get all(): readonly Buffer[] {
    return this.#all
  }

  /** Seals with the key of this mark from now on. False: the ring does not have it. */
  use(mark: string): boolean {
    const key = this.#all.find(each => markOf(each) === mark)
    if (key === undefined) return false
    if (key !== this.current) this.#all = [key, ...this.#all.filter(each => each !== key)]
    return true
  }

  /**
   * Has other keys from now on, and goes on with the one that seals. False, and nothing changed: they lack it, so what this process
   * sealed would be lost.
   */
  replace(keys: readonly Buffer[]): boolean {
    if (!keys.some(key => key.equals(this.current))) return false
    // The buffers stay the same: what is derived from them is cached by them.
    const kept = keys.map(key => this.#all.find(each => each.equals(key)) ?? key)
    this.#all = [this.current, ...kept.filter(key => key !== this.current)]
    return true
  }

  /** Returns keys of their own for a purpose. They follow the ring. */
  derived(purpose: DerivedPurpose): SealingKeys {
    const known = new WeakMap<Buffer, Buffer>()
    const derivedFrom = (key: Buffer) => {
      const derived = known.get(key) ?? createHmac('sha256', key).update(purpose).digest()
      known.set(key, derived)
      return derived
    }
    const current = () => derivedFrom(this.current)
    const all = () => this.#all.map(derivedFrom)
    return {
      get current() {
        return current()
      },
      get all() {
        return all()
      },
    }
  }
}

/**
 * Returns the mark of a key, by which the database knows it: an HMAC-SHA-256 of a constant under its 32 random bytes, which
 * reveals nothing about the key.
 */
export function markOf(masterKey: Buffer): string {
  const known = marks.get(masterKey)
  if (known !== undefined) return known
  const mark = createHmac('sha256', masterKey).update('switchyard master key').digest('hex')
  marks.set(masterKey, mark)
  return mark
}

const marks = new WeakMap<Buffer, string>()
