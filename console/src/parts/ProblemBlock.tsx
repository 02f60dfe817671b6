import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button } from '@mantine/core'
import { Problem } from '../api/request.ts'
import { CopyButton } from './CopyButton.tsx'
import styles from './parts.module.css'

/** Shows an error in the words of the API, in place of what failed. */
export function ProblemBlock({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const { message, requestId } = error instanceof Problem ? error : { message: String(error), requestId: null }
  return (
    <div className={styles.problem} role="alert">
      <div className={styles.problemText}>
        <p>{message}</p>
        {requestId !== null && (
          <p className={styles.meta}>
            <Trans>
              Request <code>{requestId}</code> <CopyButton text={requestId} what={t`the request id`} />
            </Trans>
          </p>
        )}
      </div>
      {onRetry && <Button variant="default" onClick={onRetry}>{t`Try again`}</Button>}
    </div>
  )
}
