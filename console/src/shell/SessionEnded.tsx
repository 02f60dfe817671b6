import { t } from '@lingui/core/macro'
import { Modal } from '@mantine/core'
import { OtherWays } from '../features/outside/OtherWays.tsx'
import { SignInForm } from '../features/outside/SignInForm.tsx'

/** The sign-in over a screen after the session has ended. */
export function SessionEnded({ email }: { email: string }) {
  return (
    <Modal opened onClose={() => {}} withCloseButton={false} title={t`Your session has ended`}>
      <SignInForm email={email} />
      <OtherWays />
    </Modal>
  )
}
