import { t } from '@lingui/core/macro'
import type { AttemptOutcome } from '../../../src/base/domain/handoff.ts'

/** How an attempt at a server failed, in words. */
const words = {
  connect_failed: t`no connection to the server`,
  server_error: t`error of the server`,
  first_token_timeout: t`no first token in time`,
  malformed: t`broken answer`,
  empty: t`empty answer`,
  busy: t`server was busy`,
  credential_rejected: t`server refused the key of the operator`,
  request_rejected: t`server refused the request`,
  not_sent: t`stopped before it was sent`,
  cancelled: t`stopped on the way`,
} satisfies Record<Exclude<AttemptOutcome, 'answered'>, string>

/** By the outcome in the API, which newer gateways may extend. */
export const failureWords: Readonly<Record<string, string>> = words
