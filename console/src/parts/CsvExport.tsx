import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button } from '@mantine/core'
import { useEffect, useRef, useState } from 'react'
import { fromGateway } from '../api/gateway-link.ts'
import type { CsvProgress } from '../api/save-attachment.ts'
import { bytesText, countText } from '../format/number-text.ts'
import styles from './parts.module.css'

/** Few people export, so the screens do not wait for it. */
const loadSaving = fromGateway(() => import('../api/save-attachment.ts'))

type Export =
  | { readonly state: 'idle' }
  | ({ readonly state: 'running' | 'saved' } & CsvProgress)
  | { readonly state: 'failed'; readonly message: string }

/**
 * Saves a CSV document, and shows how far a long one is.
 *
 * @param props.path below /console/api
 * @param props.rows how many rows it has about, if that is known
 * @param props.what completes "CSV of ..."
 */
export function CsvExport({ path, rows, what }: { path: string; rows?: number | undefined; what: string }) {
  const [shown, setShown] = useState<Export>({ state: 'idle' })
  const running = useRef<AbortController>(null)
  useEffect(() => () => running.current?.abort(), [])

  async function save() {
    const controller = new AbortController()
    running.current = controller
    setShown({ state: 'running', rows: 0, bytes: 0 })
    try {
      const onProgress = (progress: CsvProgress) => setShown({ state: 'running', ...progress })
      const { saveCsv } = await loadSaving()
      const size = await saveCsv(path, { signal: controller.signal, onProgress })
      setShown({ state: 'saved', ...size })
    } catch (error) {
      setShown(controller.signal.aborted ? { state: 'idle' } : { state: 'failed', message: (error as Error).message })
    }
  }

  return (
    <div className={styles.csv}>
      <span role="status" className={styles.csvStatus}>
        {statusText(shown, rows)}
      </span>
      {shown.state === 'running' ? (
        <Button variant="default" size="compact-sm" onClick={() => running.current?.abort()}>
          <Trans>
            Stop<span className="visually-hidden"> the export</span>
          </Trans>
        </Button>
      ) : (
        <Button variant="subtle" size="compact-sm" onClick={() => void save()}>
          CSV
          <span className="visually-hidden">
            <Trans> of {what}</Trans>
          </span>
        </Button>
      )}
    </div>
  )
}

function statusText(shown: Export, total: number | undefined): string {
  if (shown.state === 'idle') return ''
  if (shown.state === 'failed') return shown.message
  const { state, rows, bytes } = shown
  // Rows may be added while they are read.
  const of = state === 'running' && total !== undefined && total > rows ? t` of ${countText(total)}` : ''
  return t`${state === 'saved' ? t`Saved: ` : ''}${countText(rows)}${of} rows, ${bytesText(bytes)}`
}
