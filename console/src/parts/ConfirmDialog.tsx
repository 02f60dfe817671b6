import { Button, Modal, TextInput } from '@mantine/core'
import { type ReactNode, useState } from 'react'
import styles from './parts.module.css'

/**
 * Asks before something is deleted.
 *
 * @param props.name must be typed, if given
 */
export function ConfirmDialog({
  isOpen,
  title,
  name,
  action,
  isBusy,
  onConfirm,
  onClose,
  children,
}: {
  isOpen: boolean
  title: string
  name?: string
  action: string
  isBusy: boolean
  onConfirm: () => void
  onClose: () => void
  children: ReactNode
}) {
  const [typed, setTyped] = useState('')
  const close = () => {
    setTyped('')
    onClose()
  }
  const isReady = name === undefined || typed.trim() === name.trim()
  return (
    <Modal opened={isOpen} onClose={close} title={title}>
      <form
        style={{ display: 'grid', gap: 12 }}
        onSubmit={event => {
          event.preventDefault()
          if (isReady) onConfirm()
        }}
      >
        {children}
        {name !== undefined && (
          <TextInput
            label={`Type ${name} to confirm`}
            value={typed}
            autoComplete="off"
            onChange={event => setTyped(event.currentTarget.value)}
            data-autofocus
          />
        )}
        <div className={styles.actions}>
          <Button type="submit" variant="danger" loading={isBusy} disabled={!isReady}>
            {action}
          </Button>
          <Button variant="default" onClick={close}>
            Keep it
          </Button>
        </div>
      </form>
    </Modal>
  )
}
