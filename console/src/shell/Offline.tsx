import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useEffect, useRef } from 'react'
import { onGatewayBack, useGatewayLink } from '../api/gateway-link.ts'
import { pulseQuery } from '../api/queries.ts'
import { When } from '../parts/When.tsx'
import styles from './shell.module.css'
import { useOldData } from './use-old-data.ts'

/**
 * Says that the gateway does not answer, and how old the shown data is, or that it was upgraded. Screens keep what they
 * have.
 */
export function Offline() {
  // Most screens ask for nothing by themselves: without it, they would look current while the gateway is away.
  useQuery(pulseQuery)
  const oldFromMs = useOldData()
  const { isWaiting, isOutdated } = useGatewayLink()
  const isAway = oldFromMs !== null || isWaiting
  const wasAway = useRef(false)
  useEffect(() => {
    document.documentElement.toggleAttribute('data-old', isAway)
    if (wasAway.current && !isAway) void onGatewayBack()
    wasAway.current = isAway
  }, [isAway])
  return (
    <div role="status" className={styles.status}>
      {isAway && (
        <div className={styles.notice}>
          {texts.away}{' '}
          {oldFromMs !== null && (
            <Trans>
              You see the data of <When at={new Date(oldFromMs).toISOString()} />.
            </Trans>
          )}{' '}
          {texts.reconnecting}
        </div>
      )}
      {!isAway && isOutdated && (
        <div className={styles.notice}>
          {texts.outdated}{' '}
          <Button size="compact-sm" variant="default" onClick={() => location.reload()}>
            {texts.reload}
          </Button>
        </div>
      )}
    </div>
  )
}

const texts = {
  away: t`The gateway does not answer.`,
  reconnecting: t`Reconnecting …`,
  outdated: t`The gateway was upgraded. This page loads again when you open another one.`,
  reload: t`Load it now`,
}
