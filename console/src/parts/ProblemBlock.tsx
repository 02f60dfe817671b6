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
            Request <code>{requestId}</code> <CopyButton text={requestId} what="the request id" />
          </p>
        )}
      </div>
      {onRetry && (
        <Button variant="default" onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  )
}
