import { t } from '@lingui/core/macro'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { consoleConfigQuery } from '../../api/queries.ts'
import { Loaded } from '../../parts/Loaded.tsx'
import { MailForm } from './MailForm.tsx'
import { OutsideCard } from './OutsideCard.tsx'

/** Where a new person begins, if the operator lets people sign up. */
export function SignUp() {
  const config = useQuery(consoleConfigQuery)
  return (
    <OutsideCard title={t`Sign up`}>
      <Loaded query={config} height={120}>
        {({ sign_up }) =>
          sign_up === 'open' ? (
            <MailForm
              path="sign-up"
              action={t`Send me a link`}
              sent={t`Open the link in your mail. It makes your account and works for 24 hours.`}
            />
          ) : (
            <p>{t`This installation takes new people by invitation only. Ask its operator.`}</p>
          )
        }
      </Loaded>
      <Link to="/">{t`Sign in instead`}</Link>
    </OutsideCard>
  )
}
