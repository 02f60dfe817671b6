import { t } from '@lingui/core/macro'
import { Button, Checkbox, Modal } from '@mantine/core'
import { type ReactNode, useState } from 'react'
import { CodeBlock } from './CodeBlock.tsx'
import styles from './parts.module.css'

/**
 * Shows a new key once. It closes only when the person says that it is stored.
 *
 * @param props.children more ways to copy it
 */
export function SecretDialog({
  isOpen = true,
  title,
  secret,
  onClose,
  children,
}: {
  isOpen?: boolean
  title: string
  secret: string
  onClose: () => void
  children?: ReactNode
}) {
  const [isStored, setStored] = useState(false)
  return (
    <Modal opened={isOpen} onClose={onClose} title={title} closeOnEscape={isStored} withCloseButton={false}>
      <div className={styles.dialog}>
        <p>{t`This is the only time that the key is shown. Store it now.`}</p>
        <CodeBlock code={secret} what={t`the key`} />
        {children}
        <Checkbox
          label={t`I have stored the key`}
          checked={isStored}
          onChange={event => setStored(event.currentTarget.checked)}
        />
        <Button onClick={onClose} disabled={!isStored}>{t`Close`}</Button>
      </div>
    </Modal>
  )
}
