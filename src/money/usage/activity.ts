import type { Sql } from '../../base/db/pool.ts'
import type { Caller } from '../../base/domain/caller.ts'
import { ApiError } from '../../base/domain/errors.ts'
import type { RequestPage, RequestReceipt, RequestsQuery } from '../../wire/api/activity.ts'
import { readRequestId } from '../../wire/api/request-id.ts'
import { isArchived } from './archived-before.ts'
import { listRequests } from './list-requests.ts'
import { readReceipt } from './read-receipt.ts'
import { reportSql } from './report-sql.ts'

/** Reads the requests of one customer. Throws `database_unavailable`. */
export interface Activity {
  /** Returns one page, newest first. Throws `invalid_value` for a period that ends before it begins. */
  list(caller: Caller, query: RequestsQuery): Promise<RequestPage>
  /**
   * Returns the receipt of one request. Throws `request_not_found`, also for invalid ids and requests of
   * other customers.
   */
  receipt(caller: Caller, requestId: string): Promise<RequestReceipt>
}

export function createActivity(deps: { sql: Sql }): Activity {
  const sql = reportSql(deps.sql)
  return {
    list: (caller, query) => listRequests(sql, caller.customerId, query),
    async receipt(caller, requestId) {
      const id = readRequestId(requestId)
      const receipt = id === undefined ? null : await readReceipt(sql, caller.customerId, id)
      if (receipt !== null) return receipt
      if (id === undefined || !(await isArchived(sql, id))) throw new ApiError('request_not_found')
      throw new ApiError('request_not_found', {
        message:
          'There is no receipt for this id. The operator has archived the requests of its month; reports still have their sums.',
      })
    },
  }
}
