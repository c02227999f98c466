"""An Airflow DAG: plan and run a job every night; a run that is repeated for the same day does nothing."""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

JOB = "/opt/jobs/nightly-bootstrap.yaml"
RUN = f"stateproc run {JOB} --set date={{{{ ds }}}} --set lake=/lake --set savepoints=/savepoints"

with DAG(
    "nightly_bootstrap",
    schedule="30 2 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    # A run that is repeated starts cleanly, and does nothing if the one before was finished.
    default_args={"retries": 2, "retry_delay": timedelta(minutes=5)},
) as dag:
    plan = BashOperator(task_id="plan", bash_command=f"{RUN} --plan")
    run = BashOperator(task_id="run", bash_command=f"{RUN} --json")
    plan >> run
