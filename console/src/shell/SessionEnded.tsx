import { t } from '@lingui/core/macro'
import { Modal } from '@mantine/core'
import { useEffect } from 'react'
import { OtherWays } from '../features/outside/OtherWays.tsx'
import { SignInForm } from '../features/outside/SignInForm.tsx'

/**
 * Shows the sign-in in place of the screen after the session has ended. The screen keeps what was typed, but whoever sits there now must
 * not read it. Open dialogs are covered.
 */
export function SessionEnded({ email }: { email: string }) {
  useEffect(() => {
    const screen = document.querySelector<HTMLElement>('#root')
    if (screen === null) return
    screen.hidden = true
    return () => {
      screen.hidden = false
    }
  }, [])
  return (
    <Modal
      opened
      onClose={() => {}}
      withCloseButton={false}
      title={t`Your session has ended`}
      zIndex={500}
      overlayProps={{ color: 'var(--page)', backgroundOpacity: 1 }}
    >
      <SignInForm email={email} />
      <OtherWays />
    </Modal>
  )
}
