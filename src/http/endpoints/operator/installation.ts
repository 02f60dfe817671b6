import type { OperatorConsole } from '../../../operator/operator-console.ts'
import { keyOfCursor } from '../../../wire/api/cursor.ts'
import { findQuery, found } from '../../../wire/api/operator/find.ts'
import { auditLogPage, auditLogState, logCursor, logQuery, logStateQuery } from '../../../wire/api/operator/log.ts'
import { operatorMoney } from '../../../wire/api/operator/money.ts'
import { operatorSystem } from '../../../wire/api/operator/system.ts'
import { readQuery } from '../../../wire/api/reports.ts'
import type { Endpoint } from '../../endpoint.ts'
import { operatorEndpoint } from './operator-endpoint.ts'

/** Money, the audit log and the system, to read. */
export function operatorInstallationEndpoints({ operator }: { readonly operator: OperatorConsole }): Endpoint[] {
  return [
    operatorEndpoint(
      'GET',
      'find',
      { scope: 'read', summary: 'Find by name or id', schema: found, query: findQuery },
      ({ request }) => operator.find(readQuery(findQuery, request.query).q),
    ),
    operatorEndpoint('GET', 'money', { scope: 'read', summary: 'Show money by day', schema: operatorMoney }, () =>
      operator.money(),
    ),
    operatorEndpoint(
      'GET',
      'log',
      { scope: 'read', summary: 'Read the audit log', schema: auditLogPage, query: logQuery },
      ({ request }) => {
        const query = readQuery(logQuery, request.query)
        return operator.log(query, keyOfCursor(query.cursor, logCursor))
      },
    ),
    operatorEndpoint(
      'GET',
      'log/state',
      { scope: 'read', summary: 'Check the hashes of the audit log', schema: auditLogState, query: logStateQuery },
      ({ request }) => operator.checkLog(readQuery(logStateQuery, request.query).scope === 'all'),
    ),
    operatorEndpoint(
      'GET',
      'system',
      { scope: 'read', summary: 'Show nodes, checks, jobs and settings', schema: operatorSystem },
      () => operator.system(),
    ),
  ]
}
