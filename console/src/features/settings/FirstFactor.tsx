import { t } from '@lingui/core/macro'
import { Button } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { Page } from '../../parts/Page.tsx'
import { useSession } from '../../shell/use-session.ts'
import { Factors } from './Factors.tsx'

/** Where the link of an operator leads after the password: operators need a second factor from the next sign-in on. */
export function FirstFactor() {
  const { has_factor: hasFactor, person } = useSession()
  return (
    <Page title={t`Add a second factor`}>
      <p>
        {t`Operators sign in with a password and a second factor: a passkey or an authenticator app.`}{' '}
        {person.role === null
          ? t`An operator can give you the role once you have one.`
          : t`Without one, your next sign-in does not open the operator's pages, and only a command on the host lets you add one.`}
      </p>
      <Factors />
      <div>
        <Button component={Link} to="/" variant={hasFactor ? 'filled' : 'default'}>
          {hasFactor ? t`Continue` : t`Not now`}
        </Button>
      </div>
    </Page>
  )
}
