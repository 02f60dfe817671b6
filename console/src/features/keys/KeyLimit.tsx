import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button } from '@mantine/core'
import type { Key } from '#api/keys.ts'
import { roundUsd } from '../../format/usd-text.ts'
import { Meter, windowText } from '../../parts/Meter.tsx'
import styles from './keys.module.css'

/**
 * How much of its limit a key has spent.
 *
 * @param props.onSet is given to people who may set one
 */
export function KeyLimit({
  keyShown: { name, limit_usd, limit_reset, spent_usd },
  onSet,
}: {
  keyShown: Key
  onSet?: (() => void) | undefined
}) {
  if (limit_usd === null) {
    if (onSet === undefined) return <span className={styles.hint}>{t`no limit of its own`}</span>
    return (
      <Button variant="subtle" size="compact-sm" className={styles.setLimit} onClick={onSet}>
        <Trans>
          Set a limit<span className="visually-hidden"> for {name}</span>
        </Trans>
      </Button>
    )
  }
  const spent = spent_usd ?? 0
  const text = t`${roundUsd(spent)} of ${roundUsd(limit_usd)} USD`
  return (
    <div className={styles.limit}>
      <Meter label={windowText[limit_reset]} used={spent} limit={limit_usd} text={text} />
    </div>
  )
}
