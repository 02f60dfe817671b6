import { t } from '@lingui/core/macro'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { consoleConfigQuery } from '../../api/queries.ts'
import { OtherWays } from './OtherWays.tsx'
import { OutsideCard } from './OutsideCard.tsx'
import styles from './outside.module.css'
import { SignInForm } from './SignInForm.tsx'

export function SignInCard() {
  const { data: config } = useQuery(consoleConfigQuery)
  return (
    <OutsideCard title={t`Sign in`}>
      <SignInForm />
      <OtherWays />
      <div className={styles.links}>
        {config?.has_mail && <Link to="/reset">{t`Forgotten password`}</Link>}
        {config?.sign_up === 'open' && <Link to="/sign-up">{t`Sign up`}</Link>}
      </div>
    </OutsideCard>
  )
}
