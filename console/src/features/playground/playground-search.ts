export const tiers = ['cheapest', 'balanced', 'fastest'] as const
const CHARACTERS_MAX = 20_000

/** What a link may fill in. It never sends. */
export interface PlaygroundSearch {
  readonly model?: string
  readonly tier?: (typeof tiers)[number]
  readonly prompt?: string
}

/** Keeps what is valid of the search parameters of an address. */
export function readPlaygroundSearch(search: Record<string, unknown>): PlaygroundSearch {
  const text = (name: string) =>
    ['string', 'number', 'boolean'].includes(typeof search[name]) ? String(search[name]).slice(0, CHARACTERS_MAX) : ''
  const tier = tiers.find(each => each === search.tier)
  const [model, prompt] = [text('model'), text('prompt')]
  return { ...(model !== '' && { model }), ...(tier && { tier }), ...(prompt !== '' && { prompt }) }
}
