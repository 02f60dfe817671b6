import type { ListedRequest, RequestsQuery } from '#api/activity.ts'
import { outcomeWords } from '../../parts/outcome-words.ts'

/** The filters of the list of requests. They are part of the address, so that a link shows the same list. */
export interface ActivitySearch {
  readonly model?: string
  readonly key?: string
  readonly provider?: NonNullable<RequestsQuery['provider']>
  readonly success?: 'true' | 'false'
  readonly outcome?: ListedRequest['outcome']
  readonly label?: string
  readonly from?: string
  readonly to?: string
}

const providers = ['local', 'hoster', 'cloud', 'none'] as const

/** Keeps what is valid of the search parameters of an address. */
export function readActivitySearch(search: Record<string, unknown>): ActivitySearch {
  const text = (name: string) => (typeof search[name] === 'string' && search[name] !== '' ? search[name] : undefined)
  const provider = providers.find(each => each === search.provider)
  const success = String(search.success)
  const outcome = text('outcome')
  const [model, key, label, from, to] = ['model', 'key', 'label', 'from', 'to'].map(text)
  return {
    ...(model !== undefined && { model }),
    ...(key !== undefined && { key }),
    ...(provider !== undefined && { provider }),
    ...((success === 'true' || success === 'false') && { success }),
    ...(outcome !== undefined && isOutcome(outcome) && { outcome }),
    ...(label !== undefined && { label }),
    ...(from !== undefined && { from }),
    ...(to !== undefined && { to }),
  }
}

function isOutcome(text: string): text is ListedRequest['outcome'] {
  return Object.hasOwn(outcomeWords, text)
}
