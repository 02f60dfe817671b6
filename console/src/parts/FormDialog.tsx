import { t } from '@lingui/core/macro'
import { Button, Modal, type ModalProps } from '@mantine/core'
import type { ReactNode } from 'react'
import { FormFields } from './FormFields.tsx'
import styles from './parts.module.css'

/**
 * A dialog with a form: the fields, what went wrong, and the buttons.
 *
 * @param props.action the label of the button that sends the form
 * @param props.sending the request that the form sends
 * @param props.back replaces the button that closes the dialog
 * @param props.children the fields
 */
export function FormDialog({
  isOpen = true,
  title,
  size,
  action,
  isDanger = false,
  isDisabled = false,
  sending: { isPending, error },
  back,
  onSubmit,
  onClose,
  children,
}: {
  isOpen?: boolean
  title: string
  size?: ModalProps['size']
  action: string
  isDanger?: boolean
  isDisabled?: boolean
  sending: { readonly isPending: boolean; readonly error: Error | null }
  back?: { readonly label: string; readonly onClick: () => void }
  onSubmit: () => void
  onClose: () => void
  children: ReactNode
}) {
  const { label, onClick } = back ?? { label: t`Cancel`, onClick: onClose }
  return (
    <Modal opened={isOpen} onClose={onClose} title={title} {...(size !== undefined && { size })}>
      <form
        className={styles.dialog}
        onSubmit={event => {
          event.preventDefault()
          onSubmit()
        }}
      >
        <FormFields error={error}>{children}</FormFields>
        <div className={styles.actions}>
          <Button type="submit" variant={isDanger ? 'danger' : 'filled'} loading={isPending} disabled={isDisabled}>
            {action}
          </Button>
          <Button variant="default" onClick={onClick}>
            {label}
          </Button>
        </div>
      </form>
    </Modal>
  )
}
