import { t } from '@lingui/core/macro'
import { Plural, Trans } from '@lingui/react/macro'
import { Link } from '@tanstack/react-router'
import type { ShownServer } from '#api/operator/overview.ts'
import { countText, shareText } from '../../format/number-text.ts'
import { failureWords } from '../../parts/failure-words.ts'
import { When } from '../../parts/When.tsx'
import { codeText } from '../../texts/code-text.ts'
import styles from './operator.module.css'

type Counted = Pick<ShownServer, 'attempts_today' | 'busy_today' | 'ok_share' | 'customers_kept_away' | 'endpoint_id'>

/** The attempts of today at a server, with a link to its requests. */
export function ServerAttempts({ model, server }: { model: string; server: Counted }) {
  const {
    attempts_today: attempts,
    busy_today: busy,
    ok_share: share,
    customers_kept_away: customers,
    endpoint_id: endpointId,
  } = server
  if (share === null) return '–'
  return (
    <span className={styles.stacked}>
      <Link to="/operator/requests" search={{ model, server: endpointId }}>
        <Trans>
          {shareText(share)} of {countText(attempts)} answered
        </Trans>
      </Link>
      {busy > 0 && (
        <span className={styles.hint}>
          <Trans>{countText(busy)} refused as busy</Trans>
        </span>
      )}
      {customers > 0 && (
        <span className={styles.hint}>
          <Trans>
            kept away from <Plural value={customers} one="# customer" other="# customers" />
          </Trans>
        </span>
      )}
    </span>
  )
}

/** The last failed attempt at a server, with a link to its request. */
export function ServerError({ error }: { error: ShownServer['last_error'] }) {
  if (error === null) return '–'
  const { at, status, text, outcome, request_id: requestId } = error
  const what = text === '' ? (failureWords[outcome] ?? codeText(outcome)) : text
  return (
    <span className={styles.stacked}>
      <span className={styles.error}>
        {status !== null && !what.startsWith(String(status)) && `${status}: `}
        {what}
      </span>
      <span className={styles.hint}>
        <When at={at} form="distance" />
        {requestId !== null && (
          <>
            {' · '}
            <Link to="/operator/requests/$requestId" params={{ requestId }}>{t`request`}</Link>
          </>
        )}
      </span>
    </span>
  )
}
