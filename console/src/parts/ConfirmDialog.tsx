import { t } from '@lingui/core/macro'
import { TextInput } from '@mantine/core'
import { type ReactNode, useState } from 'react'
import { FormDialog } from './FormDialog.tsx'

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
    <FormDialog
      isOpen={isOpen}
      title={title}
      action={action}
      isDanger
      isDisabled={!isReady}
      sending={{ isPending: isBusy, error: null }}
      back={{ label: t`Keep it`, onClick: close }}
      onSubmit={onConfirm}
      onClose={close}
    >
      {children}
      {name !== undefined && (
        <TextInput
          label={t`Type ${name} to confirm`}
          value={typed}
          autoComplete="off"
          onChange={event => setTyped(event.currentTarget.value)}
          data-autofocus
        />
      )}
    </FormDialog>
  )
}
