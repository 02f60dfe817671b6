import type { RequestLog } from '#api/operator/requests.ts'
import type { OperatorUsageFilter } from '../../api/operator-queries.ts'
import { usageDimensions } from './usage-dimensions.ts'

const providers = ['local', 'hoster', 'cloud', 'none'] as const
const DAY = /^\d{4}-\d\d-\d\d$/

/** Keeps what is valid of the search parameters of the operator's usage. */
export function readOperatorUsageSearch(search: Record<string, unknown>): OperatorUsageFilter {
  const text = (name: string) => (typeof search[name] === 'string' && search[name] !== '' ? search[name] : undefined)
  const day = (name: string) => (DAY.test(text(name) ?? '') ? text(name) : undefined)
  const by = usageDimensions.find(each => each === search.by)
  const provider = providers.find(each => each === search.provider)
  const [from, until, customer, model] = [day('from'), day('until'), text('customer'), text('model')]
  return {
    ...(from !== undefined && { from }),
    ...(until !== undefined && { until }),
    ...(by !== undefined && { by }),
    ...(customer !== undefined && { customer }),
    // The gateway does not count models and servers by key.
    ...(model !== undefined && by !== 'key' && { model }),
    ...(provider !== undefined && by !== 'key' && { provider }),
  }
}

export interface SupplySearch {
  readonly model?: string
}

/** Keeps the model of the operator's page of models. */
export function readSupplySearch({ model }: Record<string, unknown>): SupplySearch {
  return typeof model === 'string' && model !== '' ? { model } : {}
}

/** What a link to a customer opens. */
export interface CustomerSearch {
  /** The dialog that grants credit. */
  readonly grant?: true
}

/** Keeps what is valid of the search parameters of the operator's page of a customer. */
export function readCustomerSearch({ grant }: Record<string, unknown>): CustomerSearch {
  return grant === true ? { grant } : {}
}

export const requestOutcomes: readonly RequestLog['data'][number]['outcome'][] = [
  ...(['served', 'client_gone', 'refused_upstream', 'unserved', 'interrupted'] as const),
  ...(['shutdown', 'internal_error', 'node_died', 'superseded'] as const),
]

/** The filters of the operator's list of requests. */
export type RequestLogSearch = { readonly [Name in (typeof requestFilters)[number]]?: string } & {
  readonly outcome?: RequestLog['data'][number]['outcome']
}

const requestFilters = ['id', 'customer', 'key', 'label', 'model', 'server', 'error', 'failure'] as const

/** Keeps the filters that are set. The gateway checks them. */
export function readRequestLogSearch(search: Record<string, unknown>): RequestLogSearch {
  const isSet = (value: unknown): value is string => typeof value === 'string' && value !== ''
  const outcome = requestOutcomes.find(each => each === search.outcome)
  return {
    ...Object.fromEntries(requestFilters.flatMap(name => (isSet(search[name]) ? [[name, search[name]]] : []))),
    ...(outcome !== undefined && { outcome }),
  }
}
