/** Ten announcements of a thousand models. Most agents announce a few models, in less than one KiB. */
const BYTES_PER_HOSTER_MAX = 4 * 1024 * 1024
const BYTES_MAX = 64 * 1024 * 1024

/** Bounds what a node keeps of all announcements: in memory, one takes about three times its length. */
export class AnnouncementBudget {
  readonly #perHoster = new Map<string, number>()
  #bytes = 0

  /** Replaces `before` bytes of a hoster by `after`. Returns false, and changes nothing, if that is too much. */
  replace(hosterId: string, before: number, after: number): boolean {
    const known = this.#perHoster.get(hosterId) ?? 0
    const [ofHoster, ofAll] = [known - before + after, this.#bytes - before + after]
    if (after > before && (ofHoster > BYTES_PER_HOSTER_MAX || ofAll > BYTES_MAX)) return false
    if (ofHoster === 0) this.#perHoster.delete(hosterId)
    else this.#perHoster.set(hosterId, ofHoster)
    this.#bytes = ofAll
    return true
  }
}
