import { t } from '@lingui/core/macro'
import { Button } from '@mantine/core'
import { useEffect, useRef, useState } from 'react'
import { withConfirmation } from '../api/confirmation.ts'
import { fromGateway } from '../api/gateway-link.ts'
import { bytesText } from '../format/number-text.ts'
import styles from './parts.module.css'

const loadSaving = fromGateway(() => import('../api/save-attachment.ts'))

/**
 * Saves all that is kept of a person or a customer, after a confirmation of the identity.
 *
 * @param props.path below /console/api
 * @param props.label of the button
 */
export function DataExport({ path, label }: { path: string; label: string }) {
  const [status, setStatus] = useState('')
  const [isRunning, setRunning] = useState(false)
  const running = useRef<AbortController>(null)
  useEffect(() => () => running.current?.abort(), [])

  async function save() {
    const controller = new AbortController()
    running.current = controller
    setRunning(true)
    let bytes = 0
    const receive = async () => {
      const { saveAttachment } = await loadSaving()
      await saveAttachment(path, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: '{}',
        signal: controller.signal,
        onPiece(piece) {
          bytes += piece.length
          setStatus(bytesText(bytes))
        },
      })
    }
    try {
      await withConfirmation(receive)
      setStatus(t`Saved: ${bytesText(bytes)}`)
    } catch (error) {
      if (!controller.signal.aborted) setStatus((error as Error).message)
    } finally {
      setRunning(false)
    }
  }

  return (
    <div style={{ display: 'flex', flexWrap: 'wrap', gap: 8, alignItems: 'center' }}>
      <Button variant="default" loading={isRunning} onClick={() => void save()}>
        {label}
      </Button>
      <span role="status" className={styles.csvStatus}>
        {status}
      </span>
    </div>
  )
}
