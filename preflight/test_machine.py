"""The machine itself."""

import pytest


@pytest.mark.check("machine.clock.past")
def test_the_clock_is_not_in_the_past(judged):
    judged()


@pytest.mark.check("machine.clock.jump")
def test_the_clock_runs_evenly(judged):
    judged()


@pytest.mark.check("machine.identity.architecture")
def test_the_processor_is_of_the_declared_architecture(judged):
    judged()


@pytest.mark.check("machine.identity.product")
def test_the_board_is_the_declared_product(judged):
    judged()


@pytest.mark.check("machine.identity.virtualization")
def test_the_box_is_as_real_or_virtual_as_declared(judged):
    judged()


@pytest.mark.check("machine.identity.container")
def test_the_suite_runs_in_the_declared_container(judged):
    judged()


@pytest.mark.check("machine.memory.total")
def test_all_declared_memory_is_there(judged):
    judged()


@pytest.mark.check("machine.memory.available")
def test_enough_memory_is_free(judged):
    judged()


@pytest.mark.check("machine.cpu.threads")
def test_engine_threads_fit_the_cpus_it_may_use(judged):
    judged()


@pytest.mark.check("machine.disk.inodes")
def test_files_can_be_created(judged):
    judged()


@pytest.mark.check("machine.disk.free")
def test_there_is_room_for_what_has_to_go_there(judged):
    judged()


@pytest.mark.check("machine.cpu.model")
def test_the_processor_is_the_declared_model(judged):
    judged()


@pytest.mark.check("machine.cpu.count")
def test_all_declared_cpus_are_online(judged):
    judged()


@pytest.mark.check("machine.cpu.instructions")
def test_the_processor_has_the_declared_instruction_sets(judged):
    judged()


@pytest.mark.check("machine.cpu.governor")
def test_the_processor_may_run_as_fast_as_declared(judged):
    judged()


@pytest.mark.check("machine.cpu.throttling")
def test_heat_does_not_slow_the_processor_down(judged):
    judged()


@pytest.mark.check("machine.numa.nodes")
def test_memory_and_cpus_are_divided_as_declared(judged):
    judged()


@pytest.mark.check("machine.devices.driver")
def test_a_driver_holds_each_gpu(judged):
    judged()


@pytest.mark.check("machine.devices.gpus")
def test_all_declared_gpus_are_there(judged):
    judged()


@pytest.mark.check("machine.leftovers.visibility")
def test_no_leftover_variable_hides_the_gpus(judged):
    judged()


@pytest.mark.check("machine.leftovers.gfx-override")
def test_no_leftover_variable_makes_a_gpu_pass_for_another(judged):
    judged()


@pytest.mark.check("machine.leftovers.mps")
def test_gpus_are_shared_between_processes_as_declared(judged):
    judged()


@pytest.mark.check("machine.python.dependencies")
def test_what_is_installed_for_python_fits_together(judged):
    judged()
