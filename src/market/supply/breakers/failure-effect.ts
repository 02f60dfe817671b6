import type { AttemptOutcome } from '../../../base/domain/handoff.ts'

/** How a failed attempt counts for the health of its offer. */
export const effectOf: Record<Exclude<AttemptOutcome, 'answered'>, 'fault' | 'busy' | 'credential' | 'not_counted'> = {
  connect_failed: 'fault',
  server_error: 'fault',
  first_token_timeout: 'fault',
  malformed: 'fault',
  empty: 'fault',
  busy: 'busy',
  credential_rejected: 'credential',
  request_rejected: 'not_counted',
  not_sent: 'not_counted',
  cancelled: 'not_counted',
}
