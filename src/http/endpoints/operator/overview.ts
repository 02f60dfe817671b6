import type { OperatorConsole } from '../../../operator/operator-console.ts'
import { overview } from '../../../wire/api/operator/overview.ts'
import type { Endpoint } from '../../endpoint.ts'
import { operatorEndpoint } from './operator-endpoint.ts'

/** GET /console/api/operator/overview */
export function operatorOverview({ operator }: { readonly operator: OperatorConsole }): Endpoint {
  return operatorEndpoint('GET', 'overview', { summary: 'Show the state of the installation', schema: overview }, () =>
    operator.overview(),
  )
}
