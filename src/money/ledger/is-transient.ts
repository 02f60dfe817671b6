import { faultOf } from '../../base/db/database-fault.ts'
import { NodeFenced } from './ledger-store.ts'

/**
 * Whether the same statement may succeed when it is sent again. Any other error is about the data and will not change.
 */
export function isTransient(error: unknown): boolean {
  // The node registers again with its next heartbeat.
  return error instanceof NodeFenced || faultOf(error) !== 'rejected'
}

/** Whether a transaction was rolled back because it waited too long for a row that another session has locked. */
export function isLockTimeout(error: unknown): boolean {
  return (error as { code?: unknown }).code === '55P03'
}
